"""What the check reads for each operation that a GPU has seen; known differences stand in a list that may only shrink."""

from __future__ import annotations

import operations
import pytest


@pytest.fixture(scope="module")
def read_by_probe() -> dict[operations.Probe, str]:
    return {probe: operations.verdict(probe) for probe in operations.probes()}


def test_probes_have_one_name_each() -> None:
    keys = [probe.key for probe in operations.probes()]
    assert len(keys) == len(set(keys)) > 800


@pytest.mark.slow
def test_only_listed_operations_differ_from_the_gpu(read_by_probe: dict[operations.Probe, str]) -> None:
    assert operations.differing(read_by_probe) == operations.listed()


def test_the_list_of_differences_only_shrinks() -> None:
    assert len(operations.listed()) <= 7
