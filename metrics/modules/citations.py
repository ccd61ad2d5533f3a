"""BibTeX entries of the papers that the metrics implement."""

SUGARCREPE = """\
@inproceedings{hsieh2023sugarcrepe,
  title={SugarCrepe: Fixing Hackable Benchmarks for Vision-Language Compositionality},
  author={Hsieh, Cheng-Yu and Zhang, Jieyu and Ma, Zixian and Kembhavi, Aniruddha and Krishna, Ranjay},
  booktitle={Advances in Neural Information Processing Systems 36, Datasets and Benchmarks Track},
  year={2023}
}
"""

ARO = """\
@inproceedings{yuksekgonul2023when,
  title={When and why vision-language models behave like bags-of-words, and what to do about it?},
  author={Yuksekgonul, Mert and Bianchi, Federico and Kalluri, Pratyusha and Jurafsky, Dan and Zou, James},
  booktitle={The Eleventh International Conference on Learning Representations},
  year={2023}
}
"""

TRICD = """\
@misc{kamath2023tricd,
  title={TRICD: Testing Robust Image Understanding Through Contextual Phrase Detection},
  author={Kamath, Aishwarya and Price, Sara and Pfeiffer, Jonas and LeCun, Yann and Carion, Nicolas},
  year={2023}
}
"""

HARD_POSITIVES = """\
@inproceedings{kamath2024hard,
  title={The Hard Positive Truth about Vision-Language Compositionality},
  author={Kamath, Amita and Hsieh, Cheng-Yu and Chang, Kai-Wei and Krishna, Ranjay},
  booktitle={European Conference on Computer Vision},
  year={2024}
}
"""

WINOGROUND = """\
@inproceedings{thrush2022winoground,
  title={Winoground: Probing Vision and Language Models for Visio-Linguistic Compositionality},
  author={Thrush, Tristan and Jiang, Ryan and Bartolo, Max and Singh, Amanpreet and Williams, Adina and Kiela, Douwe
    and Ross, Candace},
  booktitle={Proceedings of the IEEE/CVF Conference on Computer Vision and Pattern Recognition},
  year={2022}
}
"""

COLA = """\
@inproceedings{ray2023cola,
  title={Cola: A Benchmark for Compositional Text-to-image Retrieval},
  author={Ray, Arijit and Radenovic, Filip and Dubey, Abhimanyu and Plummer, Bryan and Krishna, Ranjay and
    Saenko, Kate},
  booktitle={Advances in Neural Information Processing Systems 36, Datasets and Benchmarks Track},
  year={2023}
}
"""

CREPE = """\
@inproceedings{ma2023crepe,
  title={CREPE: Can Vision-Language Foundation Models Reason Compositionally?},
  author={Ma, Zixian and Hong, Jerry and Gul, Mustafa Omer and Gandhi, Mona and Gao, Irena and Krishna, Ranjay},
  booktitle={Proceedings of the IEEE/CVF Conference on Computer Vision and Pattern Recognition},
  year={2023}
}
"""

MILLER = """\
@misc{miller2024adding,
  title={Adding Error Bars to Evals: A Statistical Approach to Language Model Evaluations},
  author={Miller, Evan},
  year={2024},
  eprint={2411.00640},
  archivePrefix={arXiv}
}
"""

MCNEMAR = """\
@article{mcnemar1947note,
  title={Note on the sampling error of the difference between correlated proportions or percentages},
  author={McNemar, Quinn},
  journal={Psychometrika},
  volume={12},
  number={2},
  pages={153--157},
  year={1947}
}
"""
