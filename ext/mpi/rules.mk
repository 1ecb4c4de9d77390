# libgrpo-KIND.so: MPI, which ranks.c loads when a launcher has started the program; one for each MPI whose header is here
MPI_openmpi := ompi-c
MPI_mpich   := mpich
MPI_KINDS   := $(foreach k,openmpi mpich,$(if $(shell $(PKG_CONFIG) --exists $(MPI_$(k)) 2>/dev/null && echo yes),$(k)))
EXT_PRODUCTS += $(MPI_KINDS:%=$(BUILD)/libgrpo-%.so)

$(BUILD)/libgrpo-%.so: ext/mpi/module/mpi_module.c ext/mpi/comm_module.h | need
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -Wpedantic -Wvla,$(BASE_CFLAGS)) -Iext $$($(PKG_CONFIG) --cflags $(MPI_$*) | sed 's/-I/-isystem /g') \
	  -shared $(LDFLAGS) -o $@ $< $$($(PKG_CONFIG) --libs $(MPI_$*))
