"""HTML reports of trainings and sweeps, without scripts or network access."""
