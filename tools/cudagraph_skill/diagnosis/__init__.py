"""Find the likely causes behind a log or a symptom.

One request:

1. `log.decoded` makes text of what was pasted, and `source.refuse` refuses a program. `log.read` returns the lines that say
   something, of a notebook those of its outputs: each once, by process, with the exception chain and the stack frames.
2. `entries.open_table` loads the messages and causes of the references; a table that an earlier run made is kept in the cache.
3. `rank.diagnose` gives each cause points: for messages of the table that stand in the log, for phrases that speak for or
   against it, and for the words in which people describe it; a few words that are part of a message count as it (`fragment`).
   It names the lines that the points came from, the user's frame,
   and the code that the static check should read next. A log of another field gets no cause.
4. `output.verdict` prints the causes as text, `output.verdict_json` as JSON; `sentences.sentences` splits a fix and leaves
   out what is about frameworks that the log does not show.
"""
