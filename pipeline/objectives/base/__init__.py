"""Label columns, mask selection and other parts that objectives share."""
