"""The Apache Beam job: its graph, and what runs it."""
