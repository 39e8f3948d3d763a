"""Sentence embeddings by attention pooling, trained with the batch-hard triplet loss of sentence-transformers."""
# needs: sentence-transformers
import torch
from sentence_transformers.sentence_transformer.losses import BatchHardTripletLoss
from sentence_transformers.sentence_transformer.modules import Pooling


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(100, 32)
        self.pool = Pooling(32, "mean")

    def forward(self, features):
        features = {**features, "token_embeddings": self.words(features["input_ids"])}
        return self.pool(features)


def make(device="cuda"):
    encoder = Encoder().to(device).train()
    criterion = BatchHardTripletLoss(encoder, margin=2.0)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.5)

    def step(input_ids, attention_mask, labels):
        loss = criterion([{"input_ids": input_ids, "attention_mask": attention_mask}], labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        mask = torch.ones(12, 9, device=device)
        mask[:, 6:] = (torch.rand(12, 3, device=device) < 0.5).float()
        return torch.randint(0, 100, (12, 9), device=device), mask, torch.arange(12, device=device) % 3

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
