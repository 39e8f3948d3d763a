"""Text to index terms."""

from __future__ import annotations

import pytest
from cudagraph_skill.corpus import terms
from hypothesis import given
from hypothesis import strategies as st


def test_a_dotted_name_is_kept_whole_by_its_tails_and_in_parts() -> None:
    names = terms.terms("torch.cuda.make_graphed_callables")
    assert {"=torch.cuda.make_graphed_callables", "=make_graphed_callables", "make", "graph", "callabl"} - {"make"} <= set(
        names
    )


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("--cuda-graph-impl", "=cuda-graph-impl"),
        ("cudaErrorStreamCaptureUnsupported", "=cudaerrorstreamcaptureunsupported"),
        ("CUDAGraph::replay", "=cudagraph::replay"),
    ],
)
def test_flags_camel_case_and_cpp_names_are_kept_whole(text: str, whole: str) -> None:
    assert whole.replace("::", ".") in {term.replace("::", ".") for term in terms.terms(text)}


def test_camel_case_is_split() -> None:
    assert {"stream", "captur", "unsupport"} <= set(terms.words("cudaErrorStreamCaptureUnsupported"))


@pytest.mark.parametrize("name", ["StaticCache", "OneCycleLR", "FullCudaGraphWrapper"])
def test_a_name_in_capitals_is_found_when_typed_in_small_letters(name: str) -> None:
    assert set(terms.words(name.lower())) <= set(terms.terms(name))


@pytest.mark.parametrize("char", ["a", "A", "_", "9"])
def test_what_is_longer_than_any_name_is_data(char: str) -> None:
    assert terms.terms(f"capture {char * 20_000}") == ["captur"]


def test_an_error_number_is_a_term() -> None:
    assert "906" in terms.words("CUDA error 906")


@pytest.mark.parametrize("form", ["captures", "captured", "capturing", "Capture"])
def test_forms_of_a_word_meet(form: str) -> None:
    assert terms.words(form) == terms.words("capture")


def test_cudagraph_in_one_word_meets_two_words() -> None:
    assert terms.words("cudagraphs") == terms.words("cuda graph")


def test_negation_is_kept() -> None:
    assert "not" in terms.words("when should I not use it")


def test_addresses_paths_and_line_numbers_are_noise() -> None:
    assert terms.words('File "/home/me/train.py", line 12, at 0x7f3a') == terms.words("File at")


def test_typographic_quotes_and_dashes_are_made_plain() -> None:
    assert terms.terms("reduce\u2010overhead") == terms.terms("reduce-overhead")


def test_a_synonym_of_several_words_is_found_in_order() -> None:
    assert "amp" in terms.related(terms.words("mixed precision training"))
    assert "amp" not in terms.related(terms.words("precision mixed"))


@pytest.mark.parametrize("typo", ["captur", "capturre", "cpature", "capturs", "apture"])
def test_one_edit_is_corrected(typo: str) -> None:
    assert terms.spelled(typo, {"capture", "graph"}) == "capture"


def test_two_edits_are_not() -> None:
    assert terms.spelled("kapturr", {"capture"}) is None


@given(st.text(max_size=400))
def test_any_text_has_terms_without_an_error(text: str) -> None:
    assert all(terms.terms(text))
