"""Export, parity checks and serving of trained models.

`export_stage` writes, checks and publishes the exported formats of a run. `signatures/`
defines the signatures of exported models, `parity/` compares each exported format with
Keras, `server/` is the model server, and `phone/` the export for phones.
"""
