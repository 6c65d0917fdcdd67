"""The page Theorem 1.8: how total variation and the distance of parameters go together.

`board` holds the pair of Gaussians that a visitor drags (`drag`, with `drag.js` in the browser),
types or chooses; `cloud` shows thousands of random pairs and the one that was clicked; `overlap`
pictures total variation; `page` puts them together with every bound of the paper. It reads no data
and spends nothing.
"""
