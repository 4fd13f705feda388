"""`transbeam deploy`: what runs an exported model with the stock TF Serving image.

`templates/` has the files as they are written, but for `${words}`; `$$` is a dollar.
`exported_model.py` finds their values and `template_rendering.py` fills them in.
"""
