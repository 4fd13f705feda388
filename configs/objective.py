"""`objective`: every kind of prediction a model can be trained for."""

from configs.language_modelling import MaskedConfig

Objective = MaskedConfig
