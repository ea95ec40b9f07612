"""The tables and figures of five papers, each cell one configuration: ``python -m benchmarks.reproduce``.

Papers: JFT (Shi et al. 2022), Selective DP (Shi et al. 2021), CRT (Zhao et al. 2022), Domain privacy (Kabra and
Elenberg 2023), and strong DP learners (Li et al. 2022). What came out: docs/reproductions.md.
"""
