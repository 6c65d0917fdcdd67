"""The scenes of the film, one file per kind of stage: words, numbers and pictures as data.

A file registers its scenes with `scene.shows`, under the stage's kind; every file of this folder is
loaded with it. A kind of stage without a file is shown by the sentences that every stage has.
"""

import importlib
import pkgutil

__all__: list[str] = []

for _file in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_file.name}")
