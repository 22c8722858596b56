"""What this program calls itself. A bare copy has no package metadata, so the number stands here."""

NAME = "distributed-training-backends"
VERSION = "0.1.0"
DESCRIPTION = "Select, configure and diagnose training backends of Hugging Face Accelerate, release by release."
