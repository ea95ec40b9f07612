from support.torch_threads import one_thread  # noqa: F401  # for all tests of the folder
