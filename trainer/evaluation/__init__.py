"""`transbeam evaluate`: what a trained model reaches, and where it is wrong."""
