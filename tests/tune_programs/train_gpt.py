"""Train the small GPT on random tokens; prints the loss of every fifth step."""

import torch
from small_gpt.network import GPT, GPTConfig


def get_batch(data, config, batch_size):
    starts = torch.randint(len(data) - config.block_size - 1, (batch_size,))
    x = torch.stack([data[start : start + config.block_size] for start in starts])
    y = torch.stack([data[start + 1 : start + 1 + config.block_size] for start in starts])
    return x.cuda(), y.cuda()


def main():
    torch.manual_seed(1337)
    config = GPTConfig()
    model = GPT(config).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)
    data = torch.randint(config.vocab_size, (4096,))
    for number in range(40):
        x, y = get_batch(data, config, 8)
        _, loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if number % 5 == 4:
            print(f"step {number + 1} loss {loss.item():.9e}", flush=True)


if __name__ == "__main__":
    main()
