"""`transbeam deploy`: files to run an exported model with the stock TF Serving image.

`templates/` contains file templates with placeholders such as `${model}`; `$$` becomes
a dollar sign. `exported_model.py` reads the exported model's metadata, and
`template_rendering.py` replaces the placeholders.
"""
