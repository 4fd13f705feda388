"""Export, proof of parity and serving of trained models.

`export_stage` is the stage; `signatures/` says what can be asked, `parity/` compares
each exported form with Keras, `server/` is the model server, and `phone/` the export
for phones.
"""
