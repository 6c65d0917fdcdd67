"""The page How it works: one release shown as a film, step by step.

`film_data` holds a finished release and divides it into the scenes that its stages name; `scenes`
has, for each kind of scene, the words, the numbers, the picture and the code that ran; `page` lets
a visitor step through them. Watching draws no noise for a result and spends nothing. The next
page is `ledger`.
"""
