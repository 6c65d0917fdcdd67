"""The page How it works: one release shown step by step, by hand or played as a film.

`film_data` holds a finished release and its stages as they were run. What is shown of a stage lies
in a file per kind (`agreement`, `refinement`, `histogram_frame`, `sketch`, `finish`), as `scene`
has it: words, numbers, picture and the code that ran. `scenes` finds the file by the kind, and
shows a stage without one by its sentences. `page` lets a visitor step through them, and `player`
plays the pictures that move. Watching draws no noise for a result and spends nothing. The next
page is `ledger`.
"""
