"""The steps of the data job, one module each. Needs no Beam."""
