"""A tiny Transformers Trainer for the oracle's DeepSpeed worker."""

from typing import Any

import torch
import transformers
import transformers.training_args

SEQUENCE = 8


class Samples(torch.utils.data.Dataset):  # type: ignore[misc]
	"""As many samples of one kind as there are processes times 64."""

	def __init__(self, count: int) -> None:
		self.count = count

	def __len__(self) -> int:
		return self.count

	def __getitem__(self, index: int) -> dict[str, Any]:
		return {"input_ids": torch.zeros(SEQUENCE, dtype=torch.long), "labels": torch.tensor(0)}


def arguments(folder: str, **settings: Any) -> Any:
	if hasattr(transformers.training_args, "is_torch_bf16_gpu_available"):
		transformers.training_args.is_torch_bf16_gpu_available = lambda: True
	defaults = {"report_to": "none", "max_steps": 100, "output_dir": f"{folder}/out"}
	return transformers.TrainingArguments(**{**defaults, **settings})


def build(settings: Any, hidden_size: int, world_size: int) -> Any:
	with torch.device("cpu"):
		model = transformers.BertForSequenceClassification(
			transformers.BertConfig(
				hidden_size=hidden_size,
				num_hidden_layers=1,
				num_attention_heads=2,
				intermediate_size=2 * hidden_size,
				vocab_size=64,
				max_position_embeddings=32,
			)
		)
	return transformers.Trainer(model=model, args=settings, train_dataset=Samples(64 * world_size))
