"""Data sets: what there is to be had, where it is on this machine, and two small ones that come along.

>>> from attangent.data import sample
>>> sample("weather").name
'weather.csv.gz'
"""

from attangent._core.gate import guard
from attangent.data.catalogue import DataFile, DataSet, all_sets, get_set
from attangent.data.places import add_folder, data_file, folders
from attangent.data.samples import sample
from attangent.data.states import FileState, look

__all__ = [
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

guard(globals())
