"""Write results as reports that people look at: one HTML file that loads and runs nothing, and a trace for Perfetto.

In: what `decide`, `map`, `tune` or `bench` found. Out: a file. `of_call`, `of_trace`, `of_map`, `of_tune` and `of_bench` make a
`page.Page` of a result, which `html.rendered` turns into HTML (templates/page.html.jinja) and `perfetto.trace` into a Chrome
trace; `file.save` writes it, and `file.refuse` says before the work that it could not.
"""
