"""Write a program for a workflow, check it on the GPU, and keep the receipt."""
