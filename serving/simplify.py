"""A SavedModel that does the same with half the nodes."""

from pathlib import Path

from tensorflow.core.protobuf import (
    config_pb2,
    meta_graph_pb2,
    rewriter_config_pb2,
    saved_model_pb2,
)
from tensorflow.python.grappler import tf_optimizer
from tensorflow.python.saved_model import fingerprinting_utils

from configs.held_back import output_held_back
from configs.run_folder import writing

# None of these is for a certain processor: what they leave are plain ops.
PASSES = ("constfold", "common_subgraph_elimination", "dependency")


def simplify(folder: Path) -> None:
    """Takes out of the functions what is known beforehand or computed twice.

    What Python traces says the same constants and shapes over and over, and a server's
    optimizer goes through all functions again for each signature, of which a model that
    writes has a dozen. So what holds on any processor is done here, once; the server
    does the rest.

    Args:
        folder: The version folder.

    Raises:
        ArtifactError: The disk refuses.
    """
    file = folder / "saved_model.pb"
    model = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    for meta_graph in model.meta_graphs:
        _simplify(meta_graph)
    with writing(folder):
        file.write_bytes(model.SerializeToString(deterministic=True))
        with output_held_back():  # it counts for Google
            fingerprinting_utils.write_fingerprint(str(folder))


def _simplify(meta_graph: meta_graph_pb2.MetaGraphDef) -> None:
    config = config_pb2.ConfigProto()
    rewrite = config.graph_options.rewrite_options
    rewrite.optimizers.extend(PASSES)
    rewrite.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
    rewrite.disable_tfg_optimizer = True  # it gives functions other names
    asked = meta_graph_pb2.MetaGraphDef()
    asked.CopyFrom(meta_graph)
    # All nodes outside functions stay: they are what signatures speak of.
    kept = asked.collection_def["train_op"].node_list.value
    kept.extend(node.name for node in meta_graph.graph_def.node)
    with output_held_back():
        simpler = tf_optimizer.OptimizeGraph(config, asked)
    made = {function.signature.name: function for function in simpler.library.function}
    for function in meta_graph.graph_def.library.function:
        # Those that make and delete tables stand in no graph, and are not in there.
        if simple := made.get(function.signature.name):
            signature = type(function.signature)()
            signature.CopyFrom(function.signature)
            function.CopyFrom(simple)
            # It forgets what shapes the variables have that come in and go out.
            for name in ("input_arg", "output_arg"):
                function.signature.ClearField(name)
                getattr(function.signature, name).extend(getattr(signature, name))
