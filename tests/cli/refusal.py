# SPDX-License-Identifier: MIT
"""How the command says no."""


def check_refused(test, result, *words, status=2):
    """One error line that says what and what is allowed, nothing on stdout."""
    message = result.stderr.decode(errors="replace")
    test.assertEqual(result.returncode, status, message)
    test.assertEqual(result.stdout, b"")
    test.assertEqual(len(message.splitlines()), 1, message)
    test.assertTrue(message.startswith("kvase: error: "), message)
    for word in words:
        test.assertIn(word, message)
