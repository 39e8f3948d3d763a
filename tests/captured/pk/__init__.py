NAME = "pk"
