"""Analyses: facts about a program that transforms and lowerings ask for. Nothing here changes a
program."""
