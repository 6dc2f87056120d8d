"""Analyses: facts about a program for transforms and lowerings. Analyses do not change programs."""
