"""The cost of a model, counted from its config: parameters, FLOPs and memory.

The model is not built and neither Keras nor numpy is imported, so `transbeam cost` is
instantaneous for models of any size. Read `weight_shapes.py` first.
"""
