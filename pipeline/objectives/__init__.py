"""What a record asks of the model, one file per objective."""
