/*
 * replay.c - runs every file of a folder through a fuzz target's function: the corpus as a test,
 * with any compiler.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
	struct stat st;
	uint8_t *data = NULL;
	int err = -1;
	FILE *file = fopen(path, "rb");

	if (!file || fstat(fileno(file), &st) < 0)
		goto out;
	/* Exactly as long as the input, so that a sanitizer sees a read beyond its end. */
	data = malloc((size_t)st.st_size ? (size_t)st.st_size : 1);
	if (!data || fread(data, 1, (size_t)st.st_size, file) != (size_t)st.st_size)
		goto out;
	LLVMFuzzerTestOneInput(data, (size_t)st.st_size);
	err = 0;
out:
	if (err)
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
	free(data);
	if (file)
		fclose(file);
	return err;
}

int main(int argc, char **argv)
{
	char path[4096];
	struct dirent *entry;
	unsigned int count = 0;
	DIR *dir;

	if (argc != 2) {
		fprintf(stderr, "usage: %s CORPUS-FOLDER\n", argv[0]);
		return 2;
	}
	dir = opendir(argv[1]);
	if (!dir) {
		fprintf(stderr, "%s: %s\n", argv[1], strerror(errno));
		return 2;
	}
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name);
		if (run_file(path))
			return 1;
		count++;
	}
	closedir(dir);
	printf("%u inputs\n", count);
	return count ? 0 : 1;
}
