"""`transbeam deploy`: what runs an exported model with the stock TF Serving image.

`templates/` has the files as they are written, but for `${words}`; `$$` is a dollar.
What the words stand for is found out by `facts.py` and filled in by `files.py`.
"""
