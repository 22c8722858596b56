"""The list of rule modules. Importing them registers their rules."""

from __future__ import annotations

from functools import cache
from importlib import import_module

MODULES = (
    "reported",
    "accelerate_file",
    "accelerate_blocks",
    "accelerate_unread",
    "accelerate_deepspeed",
    "sagemaker",
    "cross_file",
    "launch_counts",
    "launch_machines",
    "fsdp_settings",
    "fsdp_run",
    "parallelism_sizes",
    "parallelism_other",
    "parallelism_file",
    "deepspeed_text",
    "deepspeed_keys",
    "deepspeed_values",
    "deepspeed_batch",
    "deepspeed_auto",
    "deepspeed_optimizer",
    "deepspeed_scheduler",
    "deepspeed_conflicts",
    "deepspeed_huggingface",
    "deepspeed_effect",
)


@cache
def load() -> None:
    """Register all rules."""
    for name in MODULES:
        import_module(f"distributed_training_backends.rules.{name}")
