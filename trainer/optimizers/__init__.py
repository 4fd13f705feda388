"""Optimizers, learning rate schedules, and the choice of decayed weights."""
