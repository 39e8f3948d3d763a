"""Tell a question in another language than English, and keep of it what is English: technical words and names of APIs."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from cudagraph_skill.corpus.terms import KEPT, STOP_WORDS

if TYPE_CHECKING:
    from collections.abc import Callable

# Common words of German, Dutch, Swedish, Danish, French, Spanish, Portuguese, Italian, Polish, Czech, Turkish, Indonesian and
# Vietnamese that are neither English words nor names of this field.
_WORDS = frozenset(
    """
    warum wieso weshalb wie wieviel viel welche welcher welches ist sind der das und nicht kein keine mit für beim ein eine
    einen einem einer eines kann ich auf zu zum zur bei von vom werden wird wenn dass mein meine meinem meinen oder aber
    wurde gibt nach über ohne zwischen muss soll dieselbe derselbe dieser braucht immer
    waarom hoe het een niet voor mijn wordt zijn moet naar ik deze
    varför hur är och inte för jag kan jeg hvorfor hvordan ikke og med
    les une est dans avec pourquoi quand quel quelle quels que qui pas mon ma mes mais ou où cette ce ça fait sont puis je
    il faut faire avant après pendant utiliser chaque même
    el los las una con del cómo como qué por porque cuándo cuando dónde mi mis está es esto esta hacer puedo uso usar
    um uma não com são meu minha quando onde porquê fazer posso isso
    il gli che perché perchè quando dove mio mia della dello delle nel nella sono fare posso questo
    jak dlaczego nie czy się jest dla przez przy podczas mój co gdy proč při není moje jaký
    nasıl neden için bir ile ve mi değil bu nedir niye olarak
    bagaimana mengapa dengan untuk yang tidak saya apa adalah dan saat
    tại sao làm của không và cho khi thế nào là
    """.split()  # noqa: RUF001 - Turkish has an i without a dot
)
# Words of theirs that English has too, or that this field has: alone they show nothing, and they are not searched for.
_SHARED = frozenset(
    "die man comment car son pour sin sur non per come des den war hat art fast was will on en du de la le un".split()
)
_BARE = frozenset("cuda gpu pytorch torch nvidia".split())  # what every section is about
_OTHER_SCRIPT = re.compile(r"[^\W\d_\u0000-\u036f\u1e00-\u1eff]{2,}")  # letters that are neither Latin nor a single Greek one
_WORD = re.compile(r"(?<![\w.])[^\W\d_]+(?!\w)")
_ACCENTED = re.compile(r"[^\W\d_]*[\u0080-\u036f\u1e00-\u1eff][^\W\d_]*")
_ASCII = re.compile(r"--[\w-]+|[A-Za-z_][\w.]+|\d+", re.ASCII)


def english(question: str, is_known: Callable[[str], bool]) -> str | None:
    """Return the English words of a question in another language, "" where they say too little; None for a question in English.

    `is_known` tells whether the references, or a user's own Markdown, have a word.
    """
    text = unicodedata.normalize("NFKC", question)
    words = [word.lower() for word in _WORD.findall(text)]
    strange = [word for word in words if word in _WORDS or _OTHER_SCRIPT.search(word)]
    ours = [word for word in words if word in STOP_WORDS | KEPT and word not in _WORDS | _SHARED]
    if len(strange) <= len(ours) or all(map(is_known, strange)):
        return None
    # Other scripts have no blanks around what is English: only words with accents are dropped as a whole.
    tokens = _ASCII.findall(_ACCENTED.sub(" ", text))
    kept = dict.fromkeys(token for token in tokens if _is_name(token) or _is_word(token.lower(), is_known))
    return "" if _BARE.issuperset(token.lower() for token in kept) else " ".join(kept)


def _is_name(token: str) -> bool:
    """Tell whether something is spelled as names in programs are: an option, `a_b`, `a.b`, `aB`, `AB`."""
    return token.startswith("--") or re.search(r"_|\w\.\w|[a-z][A-Z]|^[A-Z]{2,}", token) is not None


def _is_word(word: str, is_known: Callable[[str], bool]) -> bool:
    return word not in _WORDS | _SHARED and is_known(word)
