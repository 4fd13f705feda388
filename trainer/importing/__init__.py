"""`transbeam import`: converts a pretrained checkpoint to a run's folder."""
