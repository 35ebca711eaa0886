"""Data sets: the catalogue, where their files are on this machine, and two samples in the package.

Example:
    >>> from attangent.data import sample
    >>> sample("weather").name
    'weather.csv.gz'
"""

from attangent.data.catalogue import SAMPLES, DataFile, DataSet, all_sets, get_set, sample
from attangent.data.places import FileState, add_folder, data_file, folders, look

__all__ = [
    "SAMPLES",
    "DataFile",
    "DataSet",
    "FileState",
    "add_folder",
    "all_sets",
    "data_file",
    "folders",
    "get_set",
    "look",
    "sample",
]
