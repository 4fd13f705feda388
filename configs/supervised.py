"""`objective`: what a model with labelled examples is asked to predict."""
