"""Hugging Face folders in and out: safetensors only, standard file names."""

from lookleft.interop.hf.folder import FAMILIES, family_of, load_hf, save_hf

__all__ = ["FAMILIES", "family_of", "load_hf", "save_hf"]
