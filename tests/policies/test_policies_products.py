"""The bits of a row's product do not depend on the other rows, and are those of a product up to rounding."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thinc.api import NumpyOps
from threadpoolctl import threadpool_info

from pipelines import products
from pipelines.products import BLOCK, RowProduct, one_thread

POOL = np.random.default_rng(1).standard_normal((400, 96), dtype=np.float32)
MATRIX = np.random.default_rng(2).standard_normal((75, 96), dtype=np.float32)
EXACT = POOL.astype(np.float64) @ MATRIX.T.astype(np.float64)
KERNELS = ("Nehalem", "Sandybridge", "Haswell", "SkylakeX")


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture(scope="module", params=["numpy's", "thinc's"])
def product(request):
    made = RowProduct(MATRIX, NumpyOps().gemm)
    made.is_numpy = request.param == "numpy's"
    return made


@given(chosen=st.lists(st.integers(0, len(POOL) - 1), max_size=2 * BLOCK + 3))
def test_a_row_has_the_same_bits_among_any_others(product, chosen):
    with one_thread():
        alone = np.concatenate([product(POOL[at : at + 1]) for at in chosen[:5]] or [np.empty((0, len(MATRIX)))])
        together = product(POOL[chosen])
    assert together.shape == (len(chosen), len(MATRIX))
    np.testing.assert_array_equal(together[:5], alone)
    np.testing.assert_allclose(together, EXACT[chosen], atol=1e-4)


class _Placed:
    """A matrix whose product differs in its last bits at one place, as those of some kernels do."""

    def __init__(self, place):
        self.shape, self.place = MATRIX.shape, place

    def __matmul__(self, columns):
        made = MATRIX @ columns
        if columns.shape[1] > self.place:
            made[:, self.place] = np.nextafter(made[:, self.place], np.float32(9))
        return made


@pytest.mark.parametrize("place", [products._MARGIN, products._MARGIN + 11, products._MARGIN + BLOCK - 2])
def test_a_kernel_whose_bits_depend_on_the_place_is_not_used(place):
    with one_thread():
        assert products._has_independent_rows(MATRIX)
        assert not products._has_independent_rows(_Placed(place))


def test_products_have_one_thread_until_the_last_block_ends():
    before = blas_threads()
    with one_thread():
        with one_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == before


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_of_other_processors_have_the_property(kernel):
    """With the shapes of the layers of `en_core_web_sm`. OpenBLAS takes another kernel if this processor lacks it."""
    code = (
        "import numpy as np\n"
        "from pipelines.products import RowProduct\n"
        "for shape in ((288, 288), (288, 384), (288, 576), (384, 64)):\n"
        "    matrix = np.random.default_rng(3).standard_normal(shape, dtype=np.float32)\n"
        "    assert RowProduct(matrix, None).is_numpy, shape\n"
    )
    subprocess.run([sys.executable, "-c", code], env={"OPENBLAS_CORETYPE": kernel}, check=True, timeout=120)
