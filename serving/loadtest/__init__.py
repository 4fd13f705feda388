"""Load tests of model servers, ours or TF Serving's: `transbeam loadtest`."""
