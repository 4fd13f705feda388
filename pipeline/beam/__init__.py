"""The Apache Beam job: its graph and its runner."""
