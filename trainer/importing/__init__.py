"""`transbeam import`: a run's folder from a checkpoint that others trained."""
