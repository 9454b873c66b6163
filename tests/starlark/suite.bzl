"""How the tests of this package are declared."""

def declare_tests(name, tests, **attributes):
    """Declares tests by what they say, and a suite of them.

    Args:
        name: string, the name of the test suite.
        tests: dict, the name of each test to its rule.
        **attributes: attributes of every test.
    """
    for test, test_rule in tests.items():
        test_rule(name = test, size = "small", **attributes)
    native.test_suite(name = name, tests = tests.keys())
