/* SPDX-License-Identifier: BSD-2-Clause */
/* std_cout.cc - a service that sends words of 8 bytes back by cin and cout; std_cxx.c starts it. */
#include <iostream>

int main()
{
	char word[8];

	while (std::cin.read(word, sizeof(word)))
		std::cout.write(word, sizeof(word)).flush();
	return 0;
}
