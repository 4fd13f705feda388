"""`transbeam deploy`: files to run an exported model with the stock TF Serving image.

`templates/` contains the files with placeholders `${words}`; `$$` is a dollar sign.
`exported_model.py` computes the values of the placeholders, and `template_rendering.py`
fills them in.
"""
