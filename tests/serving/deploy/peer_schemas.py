"""Schemas of other programs, restated from their sources."""

# tensorflow/serving, model_servers/main.cc: the names in `flag_list`.
FLAGS = {
    "port",
    "grpc_socket_path",
    "rest_api_port",
    "rest_api_num_threads",
    "rest_api_timeout_in_ms",
    "rest_api_enable_cors_support",
    "enable_batching",
    "allow_version_labels_for_unavailable_models",
    "batching_parameters_file",
    "enable_per_model_batching_parameters",
    "model_config_file",
    "model_config_file_poll_wait_seconds",
    "model_name",
    "model_base_path",
    "num_load_threads",
    "num_unload_threads",
    "max_num_load_retries",
    "load_retry_interval_micros",
    "file_system_poll_wait_seconds",
    "flush_filesystem_caches",
    "tensorflow_session_parallelism",
    "tensorflow_session_config_file",
    "tensorflow_intra_op_parallelism",
    "tensorflow_inter_op_parallelism",
    "use_alts_credentials",
    "ssl_config_file",
    "platform_config_file",
    "per_process_gpu_memory_fraction",
    "saved_model_tags",
    "grpc_channel_arguments",
    "grpc_max_threads",
    "enable_model_warmup",
    "num_request_iterations_for_warmup",
    "version",
    "monitoring_config_file",
    "remove_unused_fields_from_bundle_metagraph",
    "prefer_tflite_model",
    "num_tflite_pools",
    "num_tflite_interpreters_per_pool",
    "enable_signature_method_name_check",
    "xla_cpu_compilation_enabled",
    "xla_gpu_compilation_enabled",
    "enable_profiler",
    "thread_pool_factory_config_file",
    "mixed_precision",
    "skip_initialize_tpu",
    "enable_grpc_healthcheck_service",
    "enable_serialization_as_tensor_content",
}

# tensorflow/serving, config/monitoring_config.proto.
MONITORING = {
    "PrometheusConfig": {"enable": (1, "bool"), "path": (2, "string")},
    "MonitoringConfig": {"prometheus_config": (1, "PrometheusConfig")},
}

# tensorflow/serving, servables/tensorflow/session_bundle_config.proto; `[]` repeats.
BATCHING = {
    "BatchingParameters": {
        "max_batch_size": (1, "Int64Value"),
        "batch_timeout_micros": (2, "Int64Value"),
        "max_enqueued_batches": (3, "Int64Value"),
        "num_batch_threads": (4, "Int64Value"),
        "thread_pool_name": (5, "StringValue"),
        "allowed_batch_sizes": (6, "int64[]"),
        "pad_variable_length_inputs": (7, "bool"),
    }
}


def closed(properties, *required):
    """The JSON schema of an object with these keys alone."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


TEXT = {"type": "string", "minLength": 1}
TEXTS = {"type": "array", "items": TEXT}
NATURAL = {"type": "integer", "minimum": 0}

# kserve/kserve, python/kserve/docs/V1beta1PredictorSpec.md and V1beta1ModelSpec.md,
# as far as it is used here; the name is that of pkg/apis/serving/v1beta1,
# InvalidISVCNameFormatError, the metrics those of ScaleMetric in component.go.
_RESOURCES = closed({"cpu": TEXT, "memory": TEXT})
_MODEL = closed(
    {
        "modelFormat": closed({"name": TEXT, "version": TEXT}, "name"),
        "runtime": TEXT,
        "runtimeVersion": TEXT,
        "protocolVersion": {"enum": ["v1", "v2", "grpc-v1", "grpc-v2"]},
        "image": TEXT,
        "storageUri": {"type": "string", "pattern": "^(pvc|gs|s3|hdfs|https?)://."},
        "args": TEXTS,
        "resources": closed({"requests": _RESOURCES, "limits": _RESOURCES}),
    },
    "modelFormat",
)
KSERVE = closed(
    {
        "apiVersion": {"const": "serving.kserve.io/v1beta1"},
        "kind": {"const": "InferenceService"},
        "metadata": closed(
            {"name": {"type": "string", "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$"}},
            "name",
        ),
        "spec": closed(
            {
                "predictor": closed(
                    {
                        "minReplicas": NATURAL,
                        "maxReplicas": NATURAL,
                        "scaleTarget": NATURAL,
                        "scaleMetric": {
                            "enum": ["cpu", "memory", "concurrency", "rps"]
                        },
                        "containerConcurrency": NATURAL,
                        "timeout": NATURAL,
                        "canaryTrafficPercent": {**NATURAL, "maximum": 100},
                        "model": _MODEL,
                    },
                    "model",
                )
            },
            "predictor",
        ),
    },
    "apiVersion",
    "kind",
    "metadata",
    "spec",
)

# Vertex AI, REST v1: the body of models.upload, `Model` and `ModelContainerSpec`
# (cloud.google.com/vertex-ai/docs/reference/rest/v1/ModelContainerSpec), as far as it
# is used here.
_PORTS = {"type": "array", "items": closed({"containerPort": NATURAL}, "containerPort")}
_ROUTE = {"type": "string", "pattern": "^/"}
VERTEX = closed(
    {
        "model": closed(
            {
                "displayName": {"type": "string", "maxLength": 128},
                "description": TEXT,
                "artifactUri": {"type": "string", "pattern": "^gs://[^/]+/."},
                "containerSpec": closed(
                    {
                        "imageUri": TEXT,
                        "command": TEXTS,
                        "args": TEXTS,
                        "env": {"type": "array", "items": closed({"name": TEXT})},
                        "ports": _PORTS,
                        "predictRoute": _ROUTE,
                        "healthRoute": _ROUTE,
                    },
                    "imageUri",
                ),
            },
            "displayName",
        )
    },
    "model",
)
