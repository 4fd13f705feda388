"""What a model costs, counted from its config: weights, work and memory.

Nothing is built and neither Keras nor numpy is imported, so `transbeam cost` answers
at once, for models of any size. Read `weight_shapes.py` first.
"""
