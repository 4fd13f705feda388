"""How much a model server bears, ours or TF Serving's: `transbeam loadtest`."""
