"""Knowledge distillation from a finished run."""
